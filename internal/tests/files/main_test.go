//go:build cgo

package files

import (
	"testing"

	"xpwc/internal/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
