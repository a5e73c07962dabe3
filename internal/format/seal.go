package format

import "xpwc/internal/digest"

// Seal has a record say that it is of a model with that digest, which says what all its tensors contain: a reader is
// given the digest, and need not read them. Unlike a stamp of a file it says the same everywhere.
func (r *Record) Seal(model Digest) {
	r.Source, r.KernelStamp, r.BiasStamp = model, sealOf(model, r.Kernel), Digest{}
	if r.HasBias {
		r.BiasStamp = sealOf(model, r.Bias)
	}
}

// Sealed returns the digest that the record was sealed with, and false if it was not.
func (r *Record) Sealed() (model Digest, ok bool) {
	sealed := *r
	sealed.Seal(r.Source)
	ok = r.Source != Digest{} && sealed.KernelStamp == r.KernelStamp && sealed.BiasStamp == r.BiasStamp
	return r.Source, ok
}

// sealOf is the stamp of a tensor of a model: that of a host which gives Identity the source "sealed", and the stamp
// of the model's digest, a space and the tensor's name.
func sealOf(model Digest, name string) Digest {
	return digest.OfStrings("sealed", model.String()+" "+name)
}
