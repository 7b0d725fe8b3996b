# The targets that CI runs, in its order: `make ci` is all of them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

TOOLS := go tool -modfile=tools/go.mod
RACE  := ./nccl/... ./collective/... ./launcher/... ./sampler/... ./worker/... ./internal/... ./cmd/...

# The folder in front of cuda.h adapts gorgonia.org/cu to the headers of CUDA 13.
CUDA_ENV := CGO_CFLAGS="-O2 -I$(CURDIR)/worker/device/cuda/compat $(CUDA_CFLAGS)" CGO_LDFLAGS="$(CUDA_LDFLAGS)"

.PHONY: build
build: ## build bin/ddprun
	go build -trimpath -o bin/ddprun ./cmd/ddprun

.PHONY: test
test: ## the README's test command
	go test ./...

.PHONY: race
race: ## the tests that start goroutines, under the race detector
	go test -race -short $(RACE)

.PHONY: lint
lint: ## gofumpt, vet, staticcheck
	@unformatted=$$($(TOOLS) gofumpt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofumpt-formatted:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(TOOLS) staticcheck ./...

.PHONY: static
static: ## without cgo, and without the dynamic loader
	CGO_ENABLED=0 go build -o bin/ddprun-nocgo ./cmd/ddprun
	CGO_ENABLED=0 go build -tags nodl -o bin/ddprun-static ./cmd/ddprun

.PHONY: cuda
cuda: ## what the cuda tag adds
	$(CUDA_ENV) go build -tags cuda ./...
	$(CUDA_ENV) go vet -tags cuda ./...

KERNELS := worker/device/cuda/kernels
NVCC    ?= nvcc
NVFLAGS ?= -ccbin g++-11 -ptx -arch=compute_70 -O3 -std=c++17

.PHONY: kernels
kernels: $(patsubst %.cu,%.ptx,$(wildcard $(KERNELS)/*.cu)) ## compile the CUDA kernels to the PTX that is committed (nvcc 11.8)
	@cd $(KERNELS) && export LC_ALL=C && for f in *.cu; do \
	  echo "$$(cat $$(ls *.cuh 2>/dev/null) $$f | sha256sum | cut -d' ' -f1) $$(sha256sum < $${f%.cu}.ptx | cut -d' ' -f1) $${f%.cu}"; \
	done > kernels.sum

$(KERNELS)/%.ptx: $(KERNELS)/%.cu $(wildcard $(KERNELS)/*.cuh)
	cd $(KERNELS) && $(NVCC) $(NVFLAGS) $(<F) -o $(@F)

.PHONY: ddpworker
ddpworker: ## build bin/ddpworker, the rank with GPUs (CUDA_CFLAGS=-I.., CUDA_LDFLAGS=-L.. for an unusual place of CUDA)
	$(CUDA_ENV) go build -trimpath -tags cuda -o bin/ddpworker ./cmd/ddpworker

.PHONY: cuda-emulate
cuda-emulate: ## the GPU device's tests without a GPU, on an emulated driver (worker/device/cuda/emulator)
	$(CUDA_ENV) EMULATOR_DIR=$(CURDIR)/bin/emulator scripts/cuda-emulate.sh

.PHONY: gpu-pack
gpu-pack: ## all that a GPU machine without Go needs, into .gpu/: programs, test binaries, the script that runs them
	$(CUDA_ENV) scripts/gpu-pack.sh

.PHONY: arch
arch: ## the rules of the house
	go test -count=1 ./internal/archtest

.PHONY: fuzz
fuzz: ## every fuzz target for a few seconds (FUZZTIME=1m for longer)
	@for p in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    go test -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-10s} $$p; done; done

.PHONY: bench
bench: ## Go benchmarks of the CPU path
	go test -run '^$$' -bench . -benchmem ./internal/simd ./worker/... ./collective/...

.PHONY: ci
ci: test lint static cuda arch race

.PHONY: help
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'
