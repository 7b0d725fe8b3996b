package data

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ddprun/ddprun/internal/job"
)

// Preflight looks at the files of a job without reading them: they are there,
// regular and not empty, and token files and IDX files begin as they should.
// It is for use before any rank is started; Open checks the rest. Paths that
// differ by rank are left to the ranks.
func Preflight(d *job.Data) error {
	for _, path := range []string{d.Path, d.EvalPath} {
		if path == "" || strings.Contains(path, "%RANK%") {
			continue
		}
		if err := preflightOne(d, path); err != nil {
			return refuse(err)
		}
	}
	return nil
}

func preflightOne(d *job.Data, path string) error {
	switch d.Type {
	case "csv", "bytes":
		s, err := openStream(path)
		if err != nil {
			return err
		}
		return s.Close()
	case "tokens":
		return preflightTokens(path, d.DType)
	case "idx":
		return preflightIDX(d, path)
	}
	return nil
}

func preflightTokens(pattern, dtype string) error {
	paths, err := tokenPaths(pattern)
	if err != nil {
		return err
	}
	for _, p := range paths {
		f, err := openTokenFile(p, dtype)
		if err != nil {
			return err
		}
		if c, ok := f.f.(interface{ Close() error }); ok {
			if err := c.Close(); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	return nil
}

func preflightIDX(d *job.Data, folder string) error {
	if d.IDX == nil {
		return nil
	}
	for _, name := range []string{d.IDX.Images, d.IDX.Labels, d.IDX.EvalImages, d.IDX.EvalLabels} {
		if name == "" {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		s, err := openStream(name)
		if err != nil {
			return err
		}
		_, _, err = idxHeader(s, name)
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
