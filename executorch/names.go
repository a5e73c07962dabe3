package executorch

import "strings"

const (
	placed    = "@"    // begins the names of constants that no file gives a name: their places
	converted = " as " // is in the names of constants that a method converts, before the type
)

// Named reports whether a tensor of a Program's data map has its name from a file, by which ExecuTorch knows it too. A
// delegate's constant in its own blob, and what a method converts, have names that this package gives them.
func Named(tensor string) bool {
	return tensor != "" && !strings.HasPrefix(tensor, placed) && !strings.Contains(tensor, converted)
}
