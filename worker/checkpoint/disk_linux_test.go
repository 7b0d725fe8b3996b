package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
)

// smallDisk mounts a file system of size bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("none", dir, "tmpfs", 0, "size="+strconv.Itoa(size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSYS) {
		t.Skipf("mounting is not permitted here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Scenario: one checkpoint fits on the disk, two do not.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(smallDisk(t, 1<<20), "ck")
	big := func(step int) Snapshot {
		s := snapshot(step, 0)
		s.Model = append(s.Model, safetensors.Tensor{Name: "big", DType: "U8", Shape: []int{600_000}, Data: make([]byte, 600_000)})
		return s
	}
	first, err := Save(dir, big(1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Save(dir, big(2))
	if !errors.Is(err, syscall.ENOSPC) || exitcode.Of(err) != exitcode.Checkpoint {
		t.Fatalf("got %v", err)
	}
	found := regexp.MustCompile(`step-00000002: .*the checkpoint needs (\d+) bytes, (\d+) are free`).FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("the message lacks path, bytes wanted or bytes free: %v", err)
	}
	wanted, _ := strconv.Atoi(found[1])
	free, _ := strconv.Atoi(found[2])
	if wanted < 600_000 || wanted > 610_000 || free < 200_000 || free > 1<<20-600_000 {
		t.Errorf("%d bytes wanted, %d free", wanted, free)
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{"step-00000001"}) {
		t.Errorf("left on the disk: %v", names)
	}
	got, ok, err := Latest(dir, func(err error) { t.Error(err) })
	if err != nil || !ok || got != first {
		t.Errorf("Latest: %s %t %v", got, ok, err)
	}
}

// Every amount of room too small for a checkpoint gives the same clean refusal.
func TestDiskOfEverySize(t *testing.T) {
	for pages := 1; pages <= 12; pages++ {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			dir := filepath.Join(smallDisk(t, pages*os.Getpagesize()), "ck")
			_, err := Save(dir, snapshot(1, 0))
			if err == nil {
				if err := Verify(filepath.Join(dir, folderName(1))); err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v", err)
			}
			if names := namesIn(t, dir); len(names) != 0 {
				t.Errorf("left on the disk: %v", names)
			}
		})
	}
}

func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		dir := smallDisk(t, 1<<20)
		if err := syscall.Mount("none", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Skipf("remounting is not permitted here: %v", err)
		}
		checkUnwritable(t, dir)
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // a folder must be entered
		t.Fatal(err)
	}
	checkUnwritable(t, dir)
}

func checkUnwritable(t *testing.T, dir string) {
	t.Helper()
	if err := Prepare(dir); exitcode.Of(err) != exitcode.Checkpoint {
		t.Errorf("Prepare: %v", err)
	}
	if _, err := Save(dir, snapshot(1, 0)); exitcode.Of(err) != exitcode.Checkpoint {
		t.Errorf("Save: %v", err)
	}
}
