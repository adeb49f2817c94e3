package loader

// pi is π with that many decimals, without its point: 314159… It is Rabinowitz' and Wagon's spigot,
// which takes nothing but divisions of small numbers. So the work grows with the square of the
// decimals and takes memory of ten thirds of them. What a request asks for is exactly repeatable.
func pi(decimals int) []byte {
	const spare = 10 // the last digits are only right if more are worked out than are returned
	wanted := decimals + 1
	rests := make([]uint32, (wanted+spare)*10/3+1)
	for i := range rests {
		rests[i] = 2
	}
	s := spigot{digits: make([]byte, 0, wanted+spare+1)}
	for len(s.digits) <= wanted {
		s.put(byte(next(rests)))
	}
	return s.digits[1 : wanted+1] // before the 3 comes the 0 that it began with
}

// next takes one digit out of the rests; 10 means a carry.
func next(rests []uint32) uint32 {
	var carry uint32
	for i := uint32(len(rests)) - 1; i > 0; i-- {
		x := 10*rests[i] + carry*(i+1)
		rests[i] = x % (2*i + 1)
		carry = x / (2*i + 1)
	}
	x := 10*rests[0] + carry
	rests[0] = x % 10
	return x / 10
}

// spigot holds a digit, and the nines behind it, back until it is known that nothing is carried
// into them.
type spigot struct {
	digits []byte
	held   byte
	nines  int
}

func (s *spigot) put(digit byte) {
	switch digit {
	case 9:
		s.nines++
	case 10:
		s.release(s.held+1, '0')
		s.held = 0
	default:
		s.release(s.held, '9')
		s.held = digit
	}
}

func (s *spigot) release(digit, behind byte) {
	s.digits = append(s.digits, '0'+digit)
	for ; s.nines > 0; s.nines-- {
		s.digits = append(s.digits, behind)
	}
}
