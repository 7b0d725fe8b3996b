package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/ddprun/ddprun/internal/job"
)

// idxUint8 is the element type of MNIST-like files (Y. LeCun, "THE MNIST
// DATABASE": two zero bytes, the type, the number of dimensions, then the
// dimensions as big-endian int32, then the elements).
const idxUint8 = 0x08

// images is an IDX set in memory; pixels stay bytes until a batch wants them.
type images struct {
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
	for k, p := range s.pixels[i*n : (i+1)*n] {
		x[k] = s.value[p]
	}
	y[0] = int32(s.labels[i])
	return nil
}

func (s *images) CheckClasses(classes int) error {
	for i, l := range s.labels {
		if int(l) >= classes {
			return fmt.Errorf("%s: label %d of sample %d is out of range: the model's last layer has %d classes, 0 to %d", s.labelPath, l, i, classes, classes-1)
		}
	}
	return nil
}

func openIDX(d *job.Data) (*Sets, error) {
	if d.IDX == nil {
		return nil, errors.New("data.idx: images and labels are not named")
	}
	in := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(d.Path, name)
	}
	all, err := readImages(in(d.IDX.Images), in(d.IDX.Labels), d.IDX)
	if err != nil {
		return nil, err
	}
	s := &Sets{}
	if s.Train, s.Eval, err = split(d, in(d.IDX.Images), all); err != nil {
		return nil, err
	}
	if d.IDX.EvalImages == "" {
		return s, nil
	}
	eval, err := readImages(in(d.IDX.EvalImages), in(d.IDX.EvalLabels), d.IDX)
	if err != nil {
		return nil, err
	}
	if fmt.Sprint(eval.shape) != fmt.Sprint(all.shape) {
		return nil, fmt.Errorf("%s: images of %v, those to train on are %v", in(d.IDX.EvalImages), eval.shape, all.shape)
	}
	s.Eval, err = rows("data.eval_rows", d.EvalRows, in(d.IDX.EvalImages), eval)
	return s, err
}

func readImages(imagePath, labelPath string, c *job.IDX) (*images, error) {
	dims, pixels, err := readIDX(imagePath)
	if err != nil {
		return nil, err
	}
	if len(dims) < 2 {
		return nil, fmt.Errorf("%s: has %d dimension, images have samples and at least one more", imagePath, len(dims))
	}
	labelDims, labels, err := readIDX(labelPath)
	if err != nil {
		return nil, err
	}
	if len(labelDims) != 1 {
		return nil, fmt.Errorf("%s: has %d dimensions, labels have one", labelPath, len(labelDims))
	}
	if dims[0] != labelDims[0] {
		return nil, fmt.Errorf("%s: has %d labels, %s has %d images", labelPath, labelDims[0], imagePath, dims[0])
	}
	if dims[0] == 0 {
		return nil, fmt.Errorf("%s: there is no sample in it", imagePath)
	}
	s := &images{labelPath: labelPath, shape: dims[1:], pixels: pixels, labels: labels}
	for v := range s.value {
		s.value[v] = float32((float64(v)*c.Scale - c.Mean) / c.Std)
	}
	return s, nil
}

// readIDX reads a whole file of bytes and its dimensions.
func readIDX(path string) ([]int, []byte, error) {
	in, err := openStream(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	dims, size, err := idxHeader(in, path)
	if err != nil {
		return nil, nil, err
	}
	// The header is not believed: memory grows with what is really there.
	data, err := io.ReadAll(io.LimitReader(in, size+1))
	if err != nil {
		return nil, nil, in.broken(err)
	}
	if n := int64(len(data)); n != size {
		found := fmt.Sprintf("%d bytes", n)
		if n > size {
			found = "more"
		}
		return nil, nil, fmt.Errorf("%s: its header says %v, which is %d bytes, but %s follow", path, dims, size, found)
	}
	return dims, data, nil
}

// idxHeader reads the dimensions and the number of elements.
func idxHeader(r io.Reader, path string) ([]int, int64, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, 0, fmt.Errorf("%s: shorter than the 4 bytes that an IDX file begins with", path)
	}
	if head[0] != 0 || head[1] != 0 || head[3] == 0 {
		return nil, 0, fmt.Errorf("%s: not an IDX file: begins with %x, wanted 0000 08 and the number of dimensions", path, head)
	}
	if head[2] != idxUint8 {
		return nil, 0, fmt.Errorf("%s: its element type is 0x%02x, only bytes (0x08) are read", path, head[2])
	}
	dims, size := make([]int, head[3]), int64(1)
	for i := range dims {
		var d [4]byte
		if _, err := io.ReadFull(r, d[:]); err != nil {
			return nil, 0, fmt.Errorf("%s: cut off in its header", path)
		}
		n := int64(binary.BigEndian.Uint32(d[:]))
		if n > 0 && size > math.MaxInt64/4/n {
			return nil, 0, fmt.Errorf("%s: its dimensions are too large", path)
		}
		dims[i] = int(n)
		size *= n
	}
	return dims, size, nil
}
