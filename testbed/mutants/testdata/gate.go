package gate

func open(a, b int, shut bool) bool {
	switch {
	case shut:
		return false
	case a < b && !shut:
		return true
	}
	if a == b {
		return true
	}
	return a > b || shut
}

func other(a int) bool { return a > 1 }
