package proof

import (
	"crypto/rand"
	"encoding/hex"
)

// NewToken draws a token of 128 random bits in hexadecimal.
func NewToken() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process first
	return hex.EncodeToString(b)
}
