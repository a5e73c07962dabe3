//go:build !cgo

package operators

import "xpwc/models"

// Without cgo there are no loops in C: every operator is computed element by element.

func inPlace(...Array) bool { return false }

func combineRow(loop, models.Element, []byte, []byte, int, []byte, int, int) bool { return false }
func applyRow(loop, models.Element, []byte, []byte, int) bool                     { return false }
func foldRow(loop, models.Element, []byte, int, []byte, int) bool                 { return false }
func foldColumns(loop, models.Element, []byte, int, []byte, int) bool             { return false }
func moveElements(int, []byte, []byte, *transfer) bool                            { return false }
func convertRow(models.Element, []byte, models.Element, []byte, int) bool         { return false }
func selectRow(int, []byte, []byte, []byte, int, []byte, int, int) bool           { return false }
func attendAll([]float32, attention, attending) bool                              { return false }
func butterflies([]complex128, []complex128) bool                                 { return false }
