package visible

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/doctor/probe"
)

// four are GPUs as the stand-in driver of the tests has them.
func four() probe.Machine {
	var m probe.Machine
	for i := range 4 {
		m.GPUs = append(m.GPUs, probe.GPU{Index: i, UUID: fmt.Sprintf("GPU-%08x-1111-2222-3333-444444444444", 0xa0+i), MIG: &probe.MIG{}})
	}
	return m
}

// split has slices on GPU 1, and none on GPU 3 although it is in MIG mode.
func split() probe.Machine {
	m := four()
	m.GPUs[1].MIG = &probe.MIG{Enabled: true, Slices: []probe.MIGSlice{{UUID: "MIG-aa"}, {UUID: "MIG-bb"}}}
	m.GPUs[3].MIG = &probe.MIG{Enabled: true}
	return m
}

func entries(l List) string {
	var out []string
	for _, d := range l.Devices {
		index := "?"
		if d.GPU != nil {
			index = fmt.Sprint(d.GPU.Index)
		}
		out = append(out, d.Entry+"="+index)
	}
	return strings.Join(out, " ")
}

func TestWhatTheDriverSees(t *testing.T) {
	broken := four()
	broken.GPUs[2].Fault = "error 15 (GPU is lost)"
	for name, c := range map[string]struct {
		machine probe.Machine
		value   string // "unset": not in the environment
		want    string
		byID    bool
		say     string // in Why or a note
		err     string
	}{
		"unset":              {four(), "unset", "0=0 1=1 2=2 3=3", false, "", ""},
		"empty":              {four(), "", "", false, "list is empty", ""},
		"blank":              {four(), "  ", "", false, "list is empty", ""},
		"minus one":          {four(), "-1", "", false, "list is empty", ""},
		"Slurm's none":       {four(), "NoDevFiles", "", false, "list is empty", ""},
		"numbers":            {four(), "2,0", "2=2 0=0", false, "", ""},
		"blanks":             {four(), " 2 , 0 ", "2=2 0=0", false, "", ""},
		"comma at the end":   {four(), "2,0,", "2=2 0=0", false, "", ""},
		"ended on purpose":   {four(), "2,-1,0", "2=2", false, "ends at \"-1\"", ""},
		"UUID and prefix":    {four(), "GPU-000000a2-1111-2222-3333-444444444444,GPU-000000a0", "GPU-000000a2-1111-2222-3333-444444444444=2 GPU-000000a0=0", true, "", ""},
		"both kinds":         {four(), "1,GPU-000000a0", "1=1 GPU-000000a0=0", true, "", ""},
		"unknown UUID":       {four(), "0,GPU-000000ff", "", false, "", `entry 2, "GPU-000000ff"`},
		"ambiguous prefix":   {four(), "GPU-000000a", "", false, "", "4 GPUs"},
		"out of range":       {four(), "0,4", "", false, "", `entry 2, "4": there is no GPU 4`},
		"out of int":         {four(), "99999999999999999999", "", false, "", "want a number"},
		"double number":      {four(), "1,0,1", "", false, "", `entry 3, "1", names the device of entry 1`},
		"double by UUID":     {four(), "2,GPU-000000a2", "", false, "", `entry 2, "GPU-000000a2", names the device of entry 1`},
		"hole":               {four(), "0,,1", "", false, "", "entry 2 is empty"},
		"word":               {four(), "all", "", false, "", `entry 1, "all"`},
		"plus":               {four(), "+1", "", false, "", `entry 1, "+1"`},
		"hexadecimal":        {four(), "0x1", "", false, "", `entry 1, "0x1"`},
		"MIG, unchecked":     {four(), "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135", "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135=?", true, "handed on as it is", ""},
		"MIG twice":          {four(), "MIG-x,MIG-x", "", false, "", "entry 2"},
		"MIG":                {split(), "MIG-bb", "MIG-bb=1", true, "", ""},
		"MIG, unknown":       {split(), "MIG-cc", "", false, "", "MIG-aa, MIG-bb"},
		"MIG, old form":      {split(), "MIG-GPU-000000a1/1/0", "MIG-GPU-000000a1/1/0=?", true, "", ""},
		"all, with MIG":      {split(), "unset", "0=0 MIG-aa=1 MIG-bb=1 2=2", true, "GPU 3 is in MIG mode", ""},
		"number with MIG":    {split(), "1", "1=1", false, "first slice", ""},
		"no driver":          {probe.Machine{Absent: "no driver library"}, "0", "", false, "no driver library", ""},
		"driver without GPU": {probe.Machine{}, "unset", "", false, "knows no GPU", ""},
		"lost":               {broken, "unset", "", false, "", "GPU 2 does not answer"},
		"lost, listed":       {broken, "2", "", false, "", "does not answer"},
		"lost, left out":     {broken, "3", "3=3", false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Read(strings.TrimPrefix(c.value, "unset"), c.value != "unset", c.machine)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exitcode.Of(err) != exitcode.Machine {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if entries(l) != c.want || l.ByID != c.byID {
				t.Errorf("got %q, by id %v", entries(l), l.ByID)
			}
			if said := l.Why + strings.Join(l.Notes, "\n"); !strings.Contains(said, c.say) {
				t.Errorf("said %q", said)
			}
			if (len(l.Devices) == 0) != (l.Why != "") {
				t.Errorf("%d devices, why %q", len(l.Devices), l.Why)
			}
		})
	}
}

// Whatever the list is, it is read or refused; no device is handed out twice,
// and an entry reaches a rank as it was written.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"0,1", "GPU-000000a2,GPU-000000a0", "MIG-aa,1", "-1", ",,", "0,-1,1", "NoDevFiles", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		l, err := Read(value, true, split())
		if err != nil {
			return
		}
		if (len(l.Devices) == 0) != Empty(value) {
			t.Errorf("%q: %d devices", value, len(l.Devices))
		}
		seen := map[string]bool{}
		for _, d := range l.Devices {
			if seen[d.Entry] || !strings.Contains(value, d.Entry) {
				t.Errorf("%q: entry %q", value, d.Entry)
			}
			seen[d.Entry] = true
		}
	})
}
