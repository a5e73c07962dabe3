//go:build unix

package mapped

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// away removes a mapped file from its path, which is no change of the file.
func away(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }

const awayIsAChange = false
