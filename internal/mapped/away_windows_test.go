package mapped

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// away moves a mapped file from its path: Windows does not remove it. A new name is a change of attributes.
func away(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".away")) }

const awayIsAChange = true
