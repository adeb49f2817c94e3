package strict

import "strings"

// Nearest returns the choice that a word was probably meant to be: the one with the fewest
// letters added, omitted, replaced or swapped with their neighbour, as long as they are not
// more than a third of the word, or one. Case does not matter; ties go to the first.
func Nearest(word string, choices []string) (string, bool) {
	letters := len([]rune(word))
	best, limit := "", min(max(letters/3, 1)+1, letters)
	for _, c := range choices {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < limit {
			best, limit = c, d
		}
	}
	return best, best != ""
}

// distance counts the single-letter slips between two words.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	// Row i of the table has the distances between a[:i] and each b[:j]; a swap looks two rows
	// back.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range a {
		for j := range b {
			replace := rows[i][j]
			if a[i] != b[j] {
				replace++
			}
			d := min(replace, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(a)][len(b)]
}
