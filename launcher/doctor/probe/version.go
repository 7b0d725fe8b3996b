package probe

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// cudnnVersion is cudnnGetVersion's number in words; its form changed with 9.
func cudnnVersion(n int) string {
	if n >= 90000 {
		return fmt.Sprintf("%d.%d.%d", n/10000, n/100%100, n%100)
	}
	return fmt.Sprintf("%d.%d.%d", n/1000, n/100%10, n%100)
}

// fileVersion is the version that a library's file name ends in: 9.1.0 of
// libcudnn.so.9.1.0. Links are followed.
func fileVersion(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	_, version, _ := strings.Cut(filepath.Base(path), ".so.")
	return version
}

var builtFor = regexp.MustCompile(`\+cuda(\d+)\.(\d+)`)

// ncclCUDA is the CUDA version that a libnccl was built for, from the text
// "NCCL version 2.21.5+cuda12.4" in the file; 0 if there is none. NCCL has no
// call for it.
func ncclCUDA(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	return scanCUDA(f, 1<<20)
}

// scanCUDA reads in pieces of at least 64 bytes: the file has hundreds of
// megabytes.
func scanCUDA(r io.Reader, piece int) int {
	const overlap = 32 // longer than any match
	buf := make([]byte, overlap+piece)
	kept := 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		part := buf[:kept+n]
		if at := bytes.Index(part, []byte("+cuda")); at >= 0 {
			// A match at the very end may be cut; it is found whole in the next piece.
			if m := builtFor.FindSubmatch(part); m != nil && (err != nil || bytes.Index(part, m[0])+len(m[0]) < len(part)) {
				major, _ := strconv.Atoi(string(m[1])) // digits, and too many of them give nonsense that fits nothing
				minor, _ := strconv.Atoi(string(m[2]))
				return major*1000 + minor*10
			}
		}
		if err != nil {
			return 0
		}
		kept = copy(buf, part[max(0, len(part)-overlap):])
	}
}
