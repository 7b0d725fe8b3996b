package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Scale lengthens a deadline for a slow machine.
func Scale(d time.Duration) time.Duration {
	if f, err := strconv.ParseFloat(os.Getenv("TEST_TIMEOUT_SCALE"), 64); err == nil && f > 0 {
		return time.Duration(float64(d) * f)
	}
	return d
}

// Eventually waits until ok returns true and fails the test after d (scaled).
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(Scale(d))
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", Scale(d), what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
