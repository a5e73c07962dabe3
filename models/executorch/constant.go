package executorch

import (
	"fmt"
	"strings"

	"xpwc"
	"xpwc/internal/flatbuf"
	"xpwc/internal/operators"
	"xpwc/internal/tensorfile"
	"xpwc/models"
)

// stored is where bytes lie: in one of the program's files.
type stored struct {
	file int
	at   flatbuf.Span
}

// constant is a tensor with a content, as XNNPACK sees it.
type constant struct {
	name string // in the data map
	stored
	// Where the method converts it, from which type to which, and how many elements. Both types are 0 otherwise.
	from, to ScalarType
	elements int
	filled   float32 // every element, of what is in no file
}

// inFile reports whether a file has the content.
func (c *constant) inFile() bool { return c.from != c.to || c.elements == 0 }

// constant returns a content of a size. It is called what the files call it, or else by its place.
func (f *files) constant(c *content, size int64) *constant {
	at := f.find(c, size)
	name := c.name
	if name == "" {
		name = fmt.Sprintf("%s%d+%d", placed, at.at.Offset, at.at.Size)
	}
	return &constant{name: name, stored: at}
}

// convertible reports whether constants and inputs of a type are converted here to another one.
func convertible(from, to ScalarType) bool { return declared[from].Widens() && to == Float }

func (c *constant) converts() bool { return c.from != c.to }

// fill computes the content as XNNPACK sees it from the file's bytes.
func (c *constant) fill(dst, file []byte) error {
	if !c.inFile() {
		element := models.Value{Type: elementTypes[c.to]}.Element()
		all := operators.Array{Element: element, Shape: []int{c.elements}, Data: dst}
		all.Count(float64(c.filled), 0)
		return nil
	}
	if !c.converts() {
		copy(dst, file)
		return nil
	}
	return declared[c.from].Widen(dst, file[:c.from.Size()*c.elements])
}

// tensor returns the constant as a data map does.
func (f *files) tensor(c *constant) (xpwc.Tensor, error) {
	if !c.inFile() {
		return xpwc.Tensor{
			Size: c.to.Size() * c.elements,
			Fill: func(dst []byte) error { return c.fill(dst, nil) },
			Identity: xpwc.Identity{Stamp: c.name, Digest: func() (xpwc.Digest, error) {
				return xpwc.DigestOf([]byte(c.name)), nil
			}},
		}, nil
	}
	file := f.files[c.file]
	if !c.converts() {
		return file.tensor(c.at)
	}
	conversion := fmt.Sprintf(":%d %v as %v", c.elements, c.from, c.to)
	return tensorfile.Converted(file.file, placeOf(c.at), tensorfile.Conversion{
		Name: conversion,
		Size: 4 * c.elements,
		Fill: c.fill,
		Digest: func(stored []byte) xpwc.Digest {
			of := xpwc.DigestOf(stored)
			return xpwc.DigestOf(append([]byte(conversion), of[:]...))
		},
	})
}

const (
	placed    = "@"    // begins the names of constants that no file gives a name: their places
	converted = " as " // is in the names of constants that a method converts, before the type
)

// Named reports whether a tensor of a Program's data map has its name from a file, by which ExecuTorch knows it too. A
// delegate's constant in its own blob, and what a method converts, have names that this package gives them.
func Named(tensor string) bool {
	return tensor != "" && !strings.HasPrefix(tensor, placed) && !strings.Contains(tensor, converted)
}
