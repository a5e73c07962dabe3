package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/modelfile"
)

// sealedOutput is a cache file of one model that nobody writes to. An existing one is replaced.
type sealedOutput struct {
	*stage
	model  modelfile.File
	digest xpwc.Digest // of the model before it was packed
}

func newSealing(s *stage, m modelfile.File) (packOutput, error) {
	d, err := digestOfModel(m)
	if err == nil {
		err = s.replace(onlyCaches)
	}
	return sealedOutput{s, m, d}, err
}

func (p sealedOutput) finish(_ bool, r *packReport) error {
	digest, err := p.seal(p.model)
	if err == nil && digest != p.digest.String() {
		err = fmt.Errorf("%s was changed while it was packed; nothing was written to %s", p.model.Path, p.path)
	}
	if err != nil {
		return err
	}
	r.Sealed = digest
	if err := r.measure(p.newFile); err != nil {
		return err
	}
	return p.publish()
}

// seal makes what the stage has read-only, and has it say that it is of a model: the one given, or else the one that
// its entries were sealed for.
func (s *stage) seal(model modelfile.File) (digest string, err error) {
	var of xpwc.Digest
	if model.Path != "" {
		of, err = digestOfModel(model)
	} else {
		err = s.with(func(f *cachefile.File) error { of, err = sealOf(f); return err })
	}
	if err != nil {
		return "", err
	}
	s.readOnly()
	return of.String(), s.rewrite("sealing", cachefile.WriteOptions{Seal: &of})
}

var errNotSealed = errors.New("not all entries are sealed for one model: give the model with --model, " +
	"or push what xpwc pack --sealed wrote")

// sealOf returns the digest of the model that all entries of a file are sealed for.
func sealOf(f *cachefile.File) (of xpwc.Digest, err error) {
	for e, err := range f.Entries() {
		if err != nil {
			return of, err
		}
		model, sealed := e.Sealed()
		if !sealed || of != (xpwc.Digest{}) && model != of {
			return of, errNotSealed
		}
		of = model
	}
	return of, nil
}

// digestOfModel returns the digest of a model's bytes; of a model in several files, that of their digests one after the
// other. A description is none of them.
func digestOfModel(m modelfile.File) (xpwc.Digest, error) {
	var all []byte
	for _, path := range m.Files() {
		if path == m.Description || path == "" || path == filepath.Clean(m.Path)+".json" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return xpwc.Digest{}, err
		}
		if info.IsDir() {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return xpwc.Digest{}, err
		}
		var sum digest.Hash
		_, err = io.Copy(&sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return xpwc.Digest{}, err
		}
		d := sum.Sum()
		all = append(all, d[:]...)
	}
	if one := (xpwc.Digest{}); len(all) == len(one) {
		return xpwc.Digest(all), nil
	}
	return xpwc.DigestOf(all), nil
}
