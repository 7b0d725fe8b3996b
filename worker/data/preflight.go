package data

import (
	"strings"

	"github.com/ddprun/ddprun/internal/job"
)

// Preflight looks at the files of a job without loading them: they are there,
// regular, readable and not empty, gzip and IDX files begin as they should, and
// token files are as long as their headers say. It is for use before any rank
// is started, and takes no longer for large files; Open checks the rest. Paths
// that differ by rank are left to the ranks.
func Preflight(d *job.Data) error {
	c := forRank(d, 0)
	var err error
	switch c.Type {
	case "csv", "bytes":
		err = preflightFiles(d.Path, d.EvalPath)
	case "tokens":
		if !differs(d.Path, d.EvalPath) {
			err = preflightTokens(c)
		}
	case "idx":
		if x := d.IDX; !differs(d.Path, x.Images, x.Labels, x.EvalImages, x.EvalLabels) {
			err = preflightIDX(c.IDX)
		}
	}
	return refuse(err)
}

// differs says whether a path is another one on each rank.
func differs(paths ...string) bool {
	return strings.Contains(strings.Join(paths, "\n"), rankMark)
}

func preflightFiles(path, eval string) error {
	paths := []string{path}
	if eval != "" {
		paths = append(paths, eval)
	}
	for _, p := range paths {
		if differs(p) {
			continue
		}
		s, err := openStream(p)
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// preflightTokens does all that opening does: it reads nothing but headers.
func preflightTokens(d *job.Data) error {
	s, err := openTokens(d)
	if err != nil {
		return err
	}
	return s.Close()
}

func preflightIDX(x *job.IDX) error {
	pairs := [][2]string{{x.Images, x.Labels}}
	if x.EvalImages != "" {
		pairs = append(pairs, [2]string{x.EvalImages, x.EvalLabels})
	}
	for _, pair := range pairs {
		images, err := idxDims(pair[0])
		if err != nil {
			return err
		}
		labels, err := idxDims(pair[1])
		if err != nil {
			return err
		}
		if err := checkPair(pair[0], images, pair[1], labels); err != nil {
			return err
		}
	}
	return nil
}

func idxDims(path string) ([]int, error) {
	in, dims, _, err := openIDXFile(path)
	if err != nil {
		return nil, err
	}
	return dims, in.Close()
}
