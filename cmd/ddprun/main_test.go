package main

import (
	"os"
	"testing"

	"github.com/ddprun/ddprun/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
