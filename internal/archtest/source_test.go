package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// eachCall visits every call of an imported function, such as os.Exit, outside
// of tests.
func eachCall(t *testing.T, visit func(folder, place, function string, args []ast.Expr)) {
	t.Helper()
	for _, p := range list(t, "") {
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
					if id, ok := sel.X.(*ast.Ident); ok {
						visit(p.folder(), fset.Position(call.Pos()).String(), id.Name+"."+sel.Sel.Name, call.Args)
					}
				}
				return true
			})
		}
	}
}

func TestOnlyCommandsExit(t *testing.T) {
	eachCall(t, func(folder, place, function string, _ []ast.Expr) {
		switch function {
		case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln", "syscall.Exit":
			if !strings.HasPrefix(folder, "cmd/") {
				t.Errorf("%s: %s outside of cmd", place, function)
			}
		}
	})
}

// rankVariables are read and written by internal/rankenv alone.
var rankVariables = []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "DDPRUN_STORE", "DDPRUN_ATTEMPT"}

func TestRankVariablesHaveOneReader(t *testing.T) {
	eachCall(t, func(folder, place, function string, args []ast.Expr) {
		if function != "os.Getenv" && function != "os.LookupEnv" && function != "os.Setenv" || folder == "internal/rankenv" {
			return
		}
		lit, ok := args[0].(*ast.BasicLit)
		if !ok {
			return
		}
		name, err := strconv.Unquote(lit.Value)
		if err != nil {
			return
		}
		for _, v := range rankVariables {
			if name == v {
				t.Errorf("%s: %s is for internal/rankenv to read and write", place, v)
			}
		}
	})
}
