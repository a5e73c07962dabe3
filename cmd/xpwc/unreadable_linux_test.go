package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// A failing node is one of a disk that cannot give a page of each file whose name begins with bad.
type failing struct {
	*fs.LoopbackNode
	page *int64
}

func (n *failing) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &failing{child.(*fs.LoopbackNode), n.page}
}

func (n *failing) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, mode, errno := n.LoopbackNode.Open(ctx, flags)
	if errno == fs.OK && strings.HasPrefix(n.Path(n.Root()), "bad") {
		return &failingFile{h.(*fs.LoopbackFile), *n.page}, mode, errno
	}
	return h, mode, errno
}

type failingFile struct {
	file *fs.LoopbackFile
	page int64
}

func (f *failingFile) Read(ctx context.Context, b []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if f.page < 0 || offset/4096 <= f.page && f.page <= (offset+int64(len(b))-1)/4096 {
		return nil, syscall.EIO
	}
	return f.file.Read(ctx, b, offset)
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
			if err != nil {
				testkit.Lacks(t, err)
			}
			t.Cleanup(func() { require.NoError(t, server.Unmount()) })
			path := filepath.Join(dir, "bad")
			require.Contains(t, printed(t, t.TempDir(), 1, "verify", path), "input/output error")
			got, _ := runJSON(t, t.TempDir(), model, "--cache", path)
			require.Equal(t, want.Outputs, got.Outputs)
			if name != "payload" { // which is packed afresh
				require.FileExists(t, filepath.Join(real, "bad.damaged"))
			}
		})
	}
}

func TestAFileThatTheDiskCannotReadIsReportedInWordsByAnyCommand(t *testing.T) {
	_, file := packed(t, face)
	page := int64(0)
	dir, real := mount(t, func(n *fs.LoopbackNode) fs.InodeEmbedder { return &failing{n, &page} })
	for name, c := range map[string]struct {
		path, message string
		args          []string // in which bad is where the file is
	}{
		"bad.xpwc":        {file, "input/output error", []string{"inspect", "bad"}},
		"bad-diff.xpwc":   {file, "input/output error", []string{"diff", "bad", file}},
		"bad-report.xpwc": {file, "input/output error", []string{"report", "bad", "-o", "page"}},
		"bad-compact":     {file, "input/output error", []string{"compact", "bad"}},
		"bad-push":        {file, "input/output error", []string{"push", "localhost:1/a:b", "bad"}},
		"bad.pte":         {program(t, mobilenet), "input/output error|its disk failed", []string{"inspect", "bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(c.path)
			require.NoError(t, err)
			page = 0
			if name == "bad.pte" { // whose first page is read
				page = 1
			}
			require.NoError(t, os.WriteFile(filepath.Join(real, name), content, 0o600))
			c.args[slices.Index(c.args, "bad")] = filepath.Join(dir, name)
			cmd := exec.Command(tool, c.args...)
			cmd.Dir = t.TempDir() // not what this process itself shows: it stands still while a program begins
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Regexp(t, c.message, string(out))
			require.NotContains(t, string(out), "goroutine ")
		})
	}
}
