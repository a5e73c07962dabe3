package executorch

import (
	"fmt"
	"strings"

	"xpwc/internal/flatbuf"
)

// stored is where bytes lie: in one of the program's files.
type stored struct {
	file int
	at   flatbuf.Span
}

// placed begins the names of constants that no file gives a name.
const placed = "@"

// converted is in the names of constants that a method converts, before the type.
const converted = " as "

// placeName returns what a constant without a name is called: its place.
func placeName(s stored) string { return fmt.Sprintf("%s%d+%d", placed, s.at.Offset, s.at.Size) }

// convertedName returns what a constant is called that a method converts.
func convertedName(name string, to ScalarType) string { return fmt.Sprint(name, converted, to) }

// Named reports whether a tensor of a [Program]'s data map has its name from a file, and is known by it to ExecuTorch:
// a delegate's constant in its own blob, and what a method converts, have names that this package gives them.
func Named(tensor string) bool {
	return tensor != "" && !strings.HasPrefix(tensor, placed) && !strings.Contains(tensor, converted)
}
