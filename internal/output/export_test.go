package output

// NewNamed is New where the system has no files without a name.
func NewNamed(path string) (*File, error) { return newFile(path, false) }

// NewUnlinkable is New where the system gives no names to files that have none: not twice.
func NewUnlinkable(path string) (*File, error) {
	f, err := New(path)
	if err == nil && f.named == "" {
		const once = ".once"
		if err = f.dir.link(f.File, once); err == nil {
			err = f.dir.remove(once)
		}
	}
	return f, err
}

// StopBeforeRename does what Publish does before it renames the file over another.
func (f *File) StopBeforeRename() error { return f.giveName(0o600) }
