package cpu_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/collective/store"
)

// rankVariable makes the test binary a rank: "rank size store-address".
const rankVariable = "DDPRUN_TEST_RANK"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(rankVariable); ok {
		os.Exit(rankProcess(text))
	}
	os.Exit(m.Run())
}

// rankProcess all-reduces until something fails, then prints the error.
func rankProcess(text string) int {
	var rank, size int
	var addr string
	if _, err := fmt.Sscanf(text, "%d %d %s", &rank, &size, &addr); err != nil {
		fmt.Println(err)
		return 2
	}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Second)
	defer stop()
	client, err := store.Dial(ctx, addr, token)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	g, err := cpu.New(ctx, cpu.Config{Rank: rank, Size: size, Store: client, Token: token, Timeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return 2
	}
	for i := 0; ; i++ {
		v := make([]float32, 100_003)
		for j := range v {
			v[j] = float32(rank + i)
		}
		err := g.AllReduce(collective.HostBuffer(v), collective.Sum).Wait(ctx)
		if err != nil {
			fmt.Println(errors.Is(err, collective.ErrPeerLost), err)
			return 3
		}
		for j, x := range v {
			if want := float32(size*i + size*(size-1)/2); x != want {
				fmt.Printf("element %d of operation %d is %v, want %v\n", j, i, x, want)
				return 2
			}
		}
		if i == 3 {
			fmt.Println("ready")
		}
	}
}

// TestKilledProcess kills one of four ranks, which are processes: the others
// must end soon and name it.
func TestKilledProcess(t *testing.T) {
	const size, victim = 4, 2
	s := listen(t)
	var wg sync.WaitGroup
	ready := make(chan *os.Process, size)
	for r := range size {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), rankVariable+"="+strconv.Itoa(r)+" "+strconv.Itoa(size)+" "+s.Addr())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Errorf("rank %d: %s", r, lines.Text())
			}
			if r == victim {
				ready <- cmd.Process
			} else {
				ready <- nil
			}
			lines.Scan()
			err := cmd.Wait()
			if r == victim {
				return
			}
			if !strings.HasPrefix(lines.Text(), "true ") || !strings.Contains(lines.Text(), "lost rank 2") || !strings.Contains(lines.Text(), "all-reduce #") {
				t.Errorf("rank %d: %q, %v", r, lines.Text(), err)
			}
		})
	}
	var process *os.Process
	for range size {
		if p := <-ready; p != nil {
			process = p
		}
	}
	begin := time.Now()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	t.Logf("all ended %v after the kill", time.Since(begin))
}
