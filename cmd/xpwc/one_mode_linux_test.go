package main

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
)

// An everybodys node is one of a file system whose files can be written to by everybody, as ntfs-3g has them.
type everybodys struct{ *fs.LoopbackNode }

func (n *everybodys) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &everybodys{child.(*fs.LoopbackNode)}
}

func (n *everybodys) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	defer func() { out.Mode |= 0o777 }()
	return n.LoopbackNode.Getattr(ctx, f, out)
}

func (n *everybodys) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer func() { out.Mode |= 0o777 }()
	return n.LoopbackNode.Lookup(ctx, name, out)
}

func (n *everybodys) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (
	*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	defer func() { out.Mode |= 0o777 }()
	return n.LoopbackNode.Create(ctx, name, flags, mode, out)
}

func TestWhereFilesAreEverybodysNothingIsWrittenThatTheNextRunWouldRefuse(t *testing.T) {
	dir, real := mount(t, func(n *fs.LoopbackNode) fs.InodeEmbedder { return &everybodys{n} })
	model, cache := faceModel(t), filepath.Join(dir, "cache")
	for range 2 {
		require.Contains(t, printed(t, t.TempDir(), 0, "run", model, "--cache", cache), "lets others write to it")
		require.NoFileExists(t, filepath.Join(real, "cache"))
	}
}
