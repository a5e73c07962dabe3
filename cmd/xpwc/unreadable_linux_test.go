package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"

	"xpwc/internal/registrytest"
)

// A failing node is one of a disk that cannot give a page of each file that is called bad.
type failing struct {
	*fs.LoopbackNode
	page *int64
}

func (n *failing) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &failing{child.(*fs.LoopbackNode), n.page}
}

func (n *failing) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, mode, errno := n.LoopbackNode.Open(ctx, flags)
	if errno == fs.OK && n.Path(n.Root()) == "bad" {
		return &failingFile{h.(*fs.LoopbackFile), *n.page}, mode, errno
	}
	return h, mode, errno
}

type failingFile struct {
	file *fs.LoopbackFile
	page int64
}

func (f *failingFile) Read(ctx context.Context, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	if f.page < 0 || at/4096 <= f.page && f.page <= (at+int64(len(b))-1)/4096 {
		return nil, syscall.EIO
	}
	return f.file.Read(ctx, b, at)
}

func (f *failingFile) Release(ctx context.Context) syscall.Errno { return f.file.Release(ctx) }

func TestACacheThatTheDiskCannotReadIsSetAsideByRunAndReportedByVerify(t *testing.T) {
	model := faceModel(t)
	_, file := packed(t, face)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	want, _ := runJSON(t, t.TempDir(), model)
	pages := int64(len(content)) / 4096
	for name, page := range map[string]int64{"header": 0, "payload": pages / 2, "index": pages - 1, "all": -1} {
		t.Run(name, func(t *testing.T) {
			real, dir := t.TempDir(), t.TempDir()
			data := &fs.LoopbackRoot{Path: real}
			root := &failing{&fs.LoopbackNode{RootData: data}, &page}
			data.RootNode = root
			require.NoError(t, os.WriteFile(filepath.Join(real, "bad"), content, 0o600))
			server, err := fs.Mount(dir, root,
				&fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "xpwc", MaxReadAhead: 4096}})
			if err != nil && os.Getenv(registrytest.All) == "" {
				t.Skip("no file system can be mounted here:", err)
			}
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Unmount()) })
			path := filepath.Join(dir, "bad")
			require.Contains(t, says(t, dir, 1, "verify", path), "input/output error")
			got, _ := runJSON(t, dir, model, "--cache", path)
			require.Equal(t, want.Outputs, got.Outputs)
			require.FileExists(t, filepath.Join(real, "bad.damaged"))
		})
	}
}
