package npy

// Read returns the array that the bytes of a whole .npy file have, checked as [Open] checks them. Its Data is a part
// of file; it has no Name.
func Read(file []byte) (Array, error) {
	h, err := parse(file)
	if err != nil {
		return Array{}, err
	}
	return Array{Dtype: h.dtype, Shape: h.shape, Data: file[h.data : h.data+h.size : h.data+h.size]}, nil
}
