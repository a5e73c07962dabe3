package cachefile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
)

func TestCommitsSayWhatEachGenerationLists(t *testing.T) {
	m := maker{}
	m.add(weights[0], weights[1])
	m.commit(t)
	m.add(weights[2], weights[3], weights[4]) // of which two share a payload
	m.commit(t)
	m.records = m.records[1:]
	m.add(weights[5])
	m.commit(t)
	f := open(t, write(t, m.bytes()))
	commits, err := f.Commits()
	require.NoError(t, err)
	require.Len(t, commits, 3)
	for i, want := range []cachefile.Commit{
		{Entries: 2, PayloadBytes: 301_000},
		{Entries: 5, PayloadBytes: 501_077},
		{Entries: 5, PayloadBytes: 500_205, InForce: true},
	} {
		want.Generation, want.LastPacked = uint64(i+1), time.Unix(1000, 0).UTC()
		want.IndexAt, want.IndexBytes = int64(m.slots[i].IndexOffset), int64(m.slots[i].IndexSize)
		require.Equal(t, want, commits[i])
	}
}

func TestADamagedOldIndexIsNoCommit(t *testing.T) {
	m := maker{}
	for i := range 3 {
		m.add(weights[i])
		m.commit(t)
	}
	for name, damage := range map[string]func(index []byte){
		"claims more than it has": func(index []byte) { index[16] = 200 },
		"is of a later time":      func(index []byte) { index[8] = 200 },
	} {
		t.Run(name, func(t *testing.T) {
			b := m.bytes()
			damage(b[m.slots[1].IndexOffset:])
			commits, err := open(t, write(t, b)).Commits()
			require.NoError(t, err)
			require.Len(t, commits, 2)
			require.EqualValues(t, 1, commits[0].Generation)
			require.Equal(t, 3, commits[1].Entries)
		})
	}
	commits, err := open(t, write(t, executorchFile("a"))).Commits()
	require.NoError(t, err)
	require.Empty(t, commits)
	commits, err = open(t, write(t, nil)).Commits()
	require.NoError(t, err)
	require.Empty(t, commits)
}
