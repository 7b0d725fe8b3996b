package launcher

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

const maxRunID = 64

// CheckRunID refuses what is no run id. An id becomes the name of a folder and
// part of keys, wherever it came from, so the alphabet is small: letters and
// digits of ASCII, and "._-" behind the first character; 64 at most.
func CheckRunID(id string) error {
	if runIDFault(id) == "" {
		return nil
	}
	shown := id
	if len(shown) > 80 {
		shown = shown[:80] + "..."
	}
	return exitcode.With(fmt.Errorf(`run id %q: %s; want 1 to %d of A-Z a-z 0-9 . _ -, the first a letter or digit`, shown, runIDFault(id), maxRunID), exitcode.Usage)
}

func runIDFault(id string) string {
	switch {
	case id == "":
		return "is empty"
	case len(id) > maxRunID:
		return fmt.Sprintf("has %d characters", len(id))
	case !alphanumeric(id[0]):
		return fmt.Sprintf("begins with %q", id[:1])
	}
	for _, r := range id {
		if r > 127 || !alphanumeric(byte(r)) && !strings.ContainsRune("._-", r) {
			return fmt.Sprintf("has %q in it", string(r))
		}
	}
	return ""
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// NewRunID makes an id from a name of any kind, the time (UTC) and a few random
// digits.
func NewRunID(name string, now time.Time) string {
	clean := strings.Map(func(r rune) rune {
		if r < 128 && (alphanumeric(byte(r)) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, name)
	clean = strings.TrimLeft(clean, "._-")
	const stamp = "20060102-150405"
	clean = clean[:min(len(clean), maxRunID-len(stamp)-len("--0000"))]
	if clean == "" {
		clean = "run"
	}
	var few [2]byte
	_, _ = rand.Read(few[:]) // never fails
	return clean + "-" + now.UTC().Format(stamp) + "-" + hex.EncodeToString(few[:])
}
