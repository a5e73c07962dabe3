// Package identity tests which packed weights a look-up may hit: shapes, operators, CPUs and sources.
package identity
