package data

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
)

// Spec is what the samples of a set are like.
type Spec struct {
	Features []int // shape of a sample's float32 features; nil for token data
	Tokens   int   // length of a sample's token sequence; 0 for features
}

// Set is a list of samples. Reading is safe for several goroutines.
type Set interface {
	// Len is the number of samples.
	Len() int
	// Spec is what each of them is like.
	Spec() Spec
	// Read copies sample i, 0 <= i < Len, into its place in a batch: features
	// into x and its label into y[0], or Tokens input tokens into tokens and as
	// many targets into y.
	Read(i int, x []float32, tokens, y []int32) error
	// CheckClasses refuses a set with labels or tokens that are not below
	// classes. Sets too large to be read at the start check while reading.
	CheckClasses(classes int) error
}

// Sets are the data of a job.
type Sets struct {
	Train Set
	Eval  Set // nil: none
	close []func() error
}

// Close closes the files.
func (s *Sets) Close() error {
	var errs []error
	for _, f := range s.close {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// CheckClasses refuses labels and tokens that a model with that many classes
// cannot have. It must be called before samples are read.
func (s *Sets) CheckClasses(classes int) error {
	if err := s.Train.CheckClasses(classes); err != nil {
		return refuse(err)
	}
	if s.Eval == nil || whole(s.Eval) == whole(s.Train) {
		return nil
	}
	return refuse(s.Eval.CheckClasses(classes))
}

// Open opens the data of a job for one rank; %RANK% in a path is the rank. A
// file that is refused is an error of the data class that names the file, the
// place, and what was expected.
func Open(d *job.Data, rank int) (*Sets, error) {
	c := forRank(d, rank)
	var s *Sets
	var err error
	switch c.Type {
	case "csv":
		s, err = openCSV(c)
	case "idx":
		s, err = openIDX(c)
	case "bytes":
		s, err = openBytes(c)
	case "tokens":
		s, err = openTokens(c)
	case "synthetic":
		s, err = openSynthetic(c)
	default:
		err = fmt.Errorf("data.type: %s is not available", c.Type)
	}
	if err != nil {
		return nil, refuse(err)
	}
	return s, nil
}

// forRank is d with the paths of one rank.
func forRank(d *job.Data, rank int) *job.Data {
	c, number := *d, strconv.Itoa(rank)
	c.Path, c.EvalPath = strings.ReplaceAll(d.Path, rankMark, number), strings.ReplaceAll(d.EvalPath, rankMark, number)
	if d.IDX == nil {
		return &c
	}
	x := *d.IDX
	for _, name := range []*string{&x.Images, &x.Labels, &x.EvalImages, &x.EvalLabels} {
		*name = strings.ReplaceAll(*name, rankMark, number)
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(c.Path, *name)
		}
	}
	c.IDX = &x
	return &c
}

// rankMark stands for the rank in a path.
const rankMark = "%RANK%"

func refuse(err error) error {
	var c exitcode.Coder
	if err == nil || errors.As(err, &c) {
		return err
	}
	return exitcode.With(err, exitcode.Data)
}

// subset is a run of another set's samples.
type subset struct {
	Set
	from, to int
}

func (s subset) Len() int { return s.to - s.from }

func (s subset) Read(i int, x []float32, tokens, y []int32) error {
	return s.Set.Read(s.from+i, x, tokens, y)
}

func (s subset) place(i int) string { return place(s.Set, s.from+i) }

// whole is the set that s is a part of.
func whole(s Set) Set {
	if part, ok := s.(subset); ok {
		return part.Set
	}
	return s
}

// place says where sample i is to be found, if the set can tell.
func place(s Set, i int) string {
	if p, ok := s.(interface{ place(int) string }); ok {
		return p.place(i)
	}
	return ""
}

// split divides the samples of one file into those to train on and those to
// evaluate on.
func split(d *job.Data, path string, all Set) (train, eval Set, err error) {
	if train, err = rows("data.train_rows", d.TrainRows, path, all); err != nil {
		return nil, nil, err
	}
	if d.EvalRows.Set {
		eval, err = rows("data.eval_rows", d.EvalRows, path, all)
	}
	return train, eval, err
}

func rows(key string, r job.RowRange, path string, all Set) (Set, error) {
	if !r.Set {
		return all, nil
	}
	if r.From < 0 || r.To < r.From || r.To > all.Len() {
		return nil, fmt.Errorf("%s: %s is %d:%d, but there are samples 0:%d", path, key, r.From, r.To, all.Len())
	}
	return subset{all, r.From, r.To}, nil
}
