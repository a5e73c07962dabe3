package xpwc

import (
	"fmt"
	"slices"

	"xpwc/internal/digest"
)

// Alias says that the host copied or converted a loaded tensor and gives XNNPACK the copy, alias, in its place.
// original is what Load returned; only its address counts. conversion is a word for what was done, for instance "f32
// to f16", and is all that distinguishes this copy from another of the same tensor: what is packed from alias goes by
// the name of original with # and the word after it, and the stamp and the digest of original hold for it. Hosts that
// share a cache file must use one word for one conversion alone. Without a word the whole of alias is digested in
// every process that looks it up, and the name ends in #alias.
//
// alias must stay readable and unchanged until Finalize. XNNPACK of March 2026 and later reports its own copies
// itself. Errors: ErrUnknownTensor if original is nothing that Load returned, ErrNotEager if its content is yet to be
// computed, ErrFinalized, ErrClosed.
func (s *Session) Alias(alias, original []byte, conversion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch src := s.addresses[addressOf(original)]; {
	case s.stage == stageClosed:
		return fmt.Errorf("alias: %w", ErrClosed)
	case s.stage == stageFinalized:
		return fmt.Errorf("alias: %w", ErrFinalized)
	case src == nil:
		return fmt.Errorf("alias: the original was not loaded: %w", ErrUnknownTensor)
	case len(alias) == 0:
		return nil // nothing is packed from it
	case conversion == "":
		return s.addAlias(addressOf(alias), src, copying{how: compared, content: alias})
	default:
		return s.addAlias(addressOf(alias), src, copying{how: byWord, word: conversion, content: alias})
	}
}

// alias serves XNNPACK's alias_data. It has only addresses. In XNNPACK of August 2026 these are of static tensors
// that the CPU has no arithmetic for, f16 or bf16, and of their values in f32 (src/subgraph/rewrites/cvt_to_fp32.cc).
func (s *Session) alias(alias, original uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if src := s.addresses[original]; src != nil {
		if err := s.addAlias(alias, src, copying{how: xnnpacks, content: src.content}); err != nil {
			s.fail(err) // XNNPACK packs the copy, whatever is in it
		}
	}
}

// A copying is what made a copy of a tensor.
type copying struct {
	how     knowing
	word    string
	content []byte // of the copy; of the original where only XNNPACK knows it
}

// knowing says how a copy is known from others of the same tensor.
type knowing int

const (
	byWord   knowing = iota + 1 // the host has a word for it
	compared                    // by its content
	xnnpacks                    // XNNPACK made it as it always does
)

// suffix is what the name of the copy has after the original's. XNNPACK's is that of an empty word, which no host can
// give.
func (c *copying) suffix() string {
	if c.how == compared {
		return "#alias"
	}
	return "#" + c.word
}

// of returns the digest of a copy whose original has this one. No tensor's content and no other copying has it.
func (c *copying) of(original Digest) Digest {
	return digest.OfStrings("alias", c.suffix(), string(original[:]))
}

func (s *Session) addAlias(alias uintptr, src *source, c copying) error {
	same := func(copied *source) bool {
		if copied.apart.copying.how != c.how || copied.apart.copying.word != c.word {
			return false
		}
		return c.how != compared || addressOf(copied.content) == alias && len(copied.content) == len(c.content)
	}
	if !src.filled {
		return fmt.Errorf("tensor %q was copied: %w", src.name, ErrNotEager)
	}
	of := src.own()
	at := slices.IndexFunc(of.copies, same)
	if at < 0 {
		at = len(of.copies)
		of.copies = append(of.copies, newCopy(src, c))
	}
	s.addresses[alias] = of.copies[at]
	return nil
}

func newCopy(src *source, c copying) *source {
	copied := &source{
		name:    src.name + c.suffix(),
		content: c.content,
		apart:   &apart{copying: c, copyOf: src},
		packing: src.packing.clone(),
		filled:  true,
		counted: true, // Progress has the original
	}
	copied.is.Reader, copied.is.Origin = copied, src.is.Origin
	if c.how == compared {
		return copied
	}
	copied.digestWith = func() (Digest, error) {
		d, err := src.is.Digest()
		return c.of(d), err
	}
	if src.is.Stamp != (Digest{}) {
		copied.is.Stamp = c.of(src.is.Stamp)
	}
	return copied
}
