//go:build !linux

package checkpoint

import (
	"errors"
	"io"
)

func (osFS) exchange(_, _ string) error { return errors.ErrUnsupported }

func (osFS) lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }

func freeBytes(string) (uint64, bool) { return 0, false }
