//go:build !linux

package bench

func processors() use { return use{} }
