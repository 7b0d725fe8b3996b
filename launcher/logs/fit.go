package logs

import "unicode/utf8"

// fit cuts a frame to width columns, so that it does not wrap and can be
// erased. Escape sequences take no columns and are kept, also behind the cut:
// they may switch a colour off. Every other character counts as one column.
func fit(text []byte, width int) []byte {
	out := make([]byte, 0, min(len(text), 4*max(width, 0)+64))
	for columns := 0; len(text) > 0; {
		if n := escape(text); n > 0 {
			out = append(out, text[:n]...)
			text = text[n:]
			continue
		}
		_, n := utf8.DecodeRune(text)
		if columns < width && text[0] >= ' ' {
			out = append(out, text[:n]...)
			columns++
		}
		text = text[n:]
	}
	return out
}

// escape is the length of the colour or style sequence at the start of text, 0
// if there is none. Sequences that move the cursor are not kept.
func escape(text []byte) int {
	if len(text) < 3 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for i := 2; i < len(text) && i < 32; i++ {
		switch b := text[i]; {
		case b == 'm':
			return i + 1
		case (b < '0' || b > '9') && b != ';':
			return 0
		}
	}
	return 0
}
