package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ddprun/ddprun/internal/job"
)

// idxUint8 is the element type of MNIST-like files (Y. LeCun, "THE MNIST
// DATABASE": two zero bytes, the type, the number of dimensions, then the
// dimensions as big-endian int32, then the elements).
const idxUint8 = 0x08

// images is an IDX set in memory; pixels stay bytes until a batch wants them.
type images struct {
	path      string // of the images
	labelPath string
	shape     []int
	pixels    []byte
	labels    []byte
	value     [256]float32 // of each pixel value
}

func (s *images) Len() int   { return len(s.labels) }
func (s *images) Spec() Spec { return Spec{Features: s.shape} }

func (s *images) Read(i int, x []float32, _, y []int32) error {
	n := len(x)
	pixels := s.pixels[i*n : (i+1)*n]
	for k := range x {
		x[k] = s.value[pixels[k]]
	}
	y[0] = int32(s.labels[i])
	return nil
}

func (s *images) place(i int) string { return fmt.Sprintf("%s: sample %d", s.path, i) }

func (s *images) CheckClasses(classes int) error {
	for i, l := range s.labels {
		if int(l) >= classes {
			return fmt.Errorf("%s: label %d of sample %d is out of range: the model's last layer has %d classes, 0 to %d", s.labelPath, l, i, classes, classes-1)
		}
	}
	return nil
}

func openIDX(d *job.Data) (*Sets, error) {
	c := d.IDX
	all, err := readImages(c.Images, c.Labels, c)
	if err != nil {
		return nil, err
	}
	s := &Sets{}
	if s.Train, s.Eval, err = split(d, c.Images, all); err != nil || c.EvalImages == "" {
		return s, err
	}
	eval, err := readImages(c.EvalImages, c.EvalLabels, c)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(eval.shape, all.shape) {
		return nil, fmt.Errorf("%s: images of %v, those to train on are %v", c.EvalImages, eval.shape, all.shape)
	}
	s.Eval, err = rows("data.eval_rows", d.EvalRows, c.EvalImages, eval)
	return s, err
}

func readImages(imagePath, labelPath string, c *job.IDX) (*images, error) {
	dims, pixels, err := readIDX(imagePath)
	if err != nil {
		return nil, err
	}
	labelDims, labels, err := readIDX(labelPath)
	if err != nil {
		return nil, err
	}
	if err := checkPair(imagePath, dims, labelPath, labelDims); err != nil {
		return nil, err
	}
	s := &images{path: imagePath, labelPath: labelPath, shape: dims[1:], pixels: pixels, labels: labels}
	for v := range s.value {
		s.value[v] = float32((float64(v)*c.Scale - c.Mean) / c.Std)
	}
	return s, nil
}

// checkPair compares the dimensions of images with those of their labels.
func checkPair(imagePath string, dims []int, labelPath string, labels []int) error {
	switch {
	case len(dims) < 2:
		return fmt.Errorf("%s: has %d dimension, images have samples and at least one more; are images and labels swapped?", imagePath, len(dims))
	case len(labels) != 1:
		return fmt.Errorf("%s: has %d dimensions, labels have one", labelPath, len(labels))
	case dims[0] != labels[0]:
		return fmt.Errorf("%s: has %d labels, %s has %d images", labelPath, labels[0], imagePath, dims[0])
	case dims[0] == 0:
		return fmt.Errorf("%s: there is no sample in it", imagePath)
	case slices.Contains(dims, 0):
		return fmt.Errorf("%s: its images have no pixels: %v", imagePath, dims)
	}
	return nil
}

// readIDX reads a whole file of bytes and its dimensions.
func readIDX(path string) ([]int, []byte, error) {
	in, dims, size, err := openIDXFile(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	data := make([]byte, size)
	n, err := io.ReadFull(in, data)
	if err == nil || isEnd(err) {
		// Whether the file ends here, and whether gzip is content with its end.
		var more [1]byte
		var k int
		if k, err = io.ReadFull(in, more[:]); k == 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		n += k
	}
	if err != nil {
		return nil, nil, in.broken(err)
	}
	return dims, data, checkLength(path, dims, size, int64(n))
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func checkLength(path string, dims []int, want, found int64) error {
	switch {
	case found > want:
		return fmt.Errorf("%s: its header says %v, which is %d bytes, but more follow", path, dims, want)
	case found < want:
		return fmt.Errorf("%s: its header says %v, which is %d bytes, but %d bytes follow", path, dims, want, found)
	}
	return nil
}

// openIDXFile opens a file and reads its header. The header is not believed:
// elements that cannot be in the file are refused before there is memory for
// them.
func openIDXFile(path string) (*stream, []int, int64, error) {
	in, err := openStream(path)
	if err != nil {
		return nil, nil, 0, err
	}
	dims, size, err := idxHeader(in)
	switch {
	case err == nil && in.zip == nil:
		err = checkLength(path, dims, size, in.size-4-4*int64(len(dims)))
	case err == nil && size > in.bound():
		err = fmt.Errorf("%s: its header says %v, which is %d bytes: more than %d bytes of gzip can hold", path, dims, size, in.size)
	}
	if err != nil {
		return nil, nil, 0, errors.Join(err, in.Close())
	}
	return in, dims, size, nil
}

// idxHeader reads the dimensions and the number of elements.
func idxHeader(in *stream) ([]int, int64, error) {
	var head [4]byte
	if err := in.full(head[:], "shorter than the 4 bytes that an IDX file begins with"); err != nil {
		return nil, 0, err
	}
	if head[0] != 0 || head[1] != 0 || head[3] == 0 {
		return nil, 0, fmt.Errorf("%s: not an IDX file: begins with %x, wanted 000008 and the number of dimensions", in.path, head)
	}
	if head[2] != idxUint8 {
		return nil, 0, fmt.Errorf("%s: its element type is 0x%02x, only bytes (0x08) are read", in.path, head[2])
	}
	raw := make([]byte, 4*int(head[3]))
	if err := in.full(raw, "cut off in its header"); err != nil {
		return nil, 0, err
	}
	dims, size := make([]int, head[3]), int64(1)
	for i := range dims {
		n := int64(binary.BigEndian.Uint32(raw[4*i:]))
		if n > 0 && size > math.MaxInt64/4/n {
			return nil, 0, fmt.Errorf("%s: its dimensions are too large", in.path)
		}
		dims[i] = int(n)
		size *= n
	}
	return dims, size, nil
}

// full fills b; short says what is wrong if the file ends before.
func (s *stream) full(b []byte, short string) error {
	_, err := io.ReadFull(s, b)
	switch {
	case err == nil:
		return nil
	case isEnd(err) && s.zip == nil:
		return fmt.Errorf("%s: %s", s.path, short)
	case isEnd(err):
		return fmt.Errorf("%s: %s (unpacked: %w)", s.path, short, err)
	}
	return s.broken(err)
}
