package job

import "strings"

// nearest is the word that a mistyped one was most likely meant to be; empty
// when none is near.
func nearest(word string, words []string) string {
	w := plainWord(word)
	best, least := "", (len(w)+2)/3+1
	for _, known := range words {
		if d := distance(w, plainWord(known)); d < least {
			best, least = known, d
		}
	}
	return best
}

// plainWord takes off what spellings differ in.
func plainWord(s string) string {
	const most = 64 // no key is longer, and distance is quadratic
	s = strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	return s[:min(len(s), most)]
}

// distance is the number of bytes to insert, remove or change on the way from
// a to b (V. Levenshtein, 1965).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// didYouMean is the end of a message about an unknown word.
func didYouMean(word string, words []string) string {
	if n := nearest(word, words); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}
