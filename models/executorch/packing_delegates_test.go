package executorch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/executorch"
)

// A delegate's bytes do not show which of several packed weights a node uses: reading one for the other computes wrong
// numbers.
func TestAKernelThatADelegatePacksInSeveralWaysHasNoPackingDelegate(t *testing.T) {
	for name, want := range map[string]bool{"two_int8": false, "two_dyn": true} {
		p, err := executorch.Open("../../internal/tests/zoo/testdata/pte/" + name + ".pte")
		require.NoError(t, err)
		delegates, err := p.PackingDelegates()
		require.NoError(t, err)
		require.Equal(t, want, len(delegates) > 0, name)
		require.NoError(t, p.Close())
		_, err = p.PackingDelegates()
		require.Error(t, err, "it is closed")
	}
}
