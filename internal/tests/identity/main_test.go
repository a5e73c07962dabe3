//go:build cgo

package identity

import (
	"testing"

	"xpwc/internal/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
