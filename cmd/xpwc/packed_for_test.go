package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/modelfile"
)

// The record describes the program that was packed, even if another file took its place meanwhile.
func TestAFileForTheStockRuntimeIsNotSaidToBeOfAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	model := modelfile.File{Path: filepath.Join(dir, "model.pte")}
	content, err := os.ReadFile(program(t, perceptron))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(model.Path, content, 0o600))
	origin, err := newPackedFor(model, native)
	require.NoError(t, err)
	require.NoError(t, origin.check())
	require.NoError(t, os.WriteFile(model.Path, append(content, 0), 0o600))
	require.ErrorIs(t, origin.check(), xpwc.ErrSourceChanged)
	require.Equal(t, kindChanged, kindOf(origin.check()))
}
