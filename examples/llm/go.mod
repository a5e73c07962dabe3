module xpwc/examples/llm

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	xpwc v0.0.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace xpwc => ../..
