package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// A hiding node is one of a file system as sshfs, ntfs-3g and NFS: a file that is open when it is removed gets a hidden
// name, until it is closed. It may have no files without a name.
type hiding struct {
	*fs.LoopbackNode
	nameless bool
}

var hidden atomic.Int64

func (n *hiding) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &hiding{child.(*fs.LoopbackNode), n.nameless}
}

func (n *hiding) Unlink(ctx context.Context, name string) syscall.Errno {
	path := filepath.Join(n.RootData.Path, n.Path(n.Root()), name)
	if !opened(path) {
		return n.LoopbackNode.Unlink(ctx, name)
	}
	away := filepath.Join(filepath.Dir(path), fmt.Sprintf(".fuse_hidden%d", hidden.Add(1)))
	if err := os.Rename(path, away); err != nil {
		return fs.ToErrno(err)
	}
	go func() {
		for opened(away) {
			time.Sleep(time.Millisecond) // a file system learns later that a file was closed
		}
		_ = os.Remove(away)
	}()
	return fs.OK
}

// opened reports whether this process, which is the file system, has a file open for another.
func opened(path string) bool {
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range open {
		if target, err := os.Readlink(name); err == nil && target == path {
			return true
		}
	}
	return false
}

func (n *hiding) Tmpfile(ctx context.Context, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32,
	syscall.Errno) {
	if !n.nameless {
		return nil, nil, 0, syscall.EOPNOTSUPP
	}
	return n.LoopbackNode.Tmpfile(ctx, flags, mode, out)
}

// mount mounts a file system that shows what is really in another directory.
func mount(t *testing.T, root func(*fs.LoopbackNode) fs.InodeEmbedder) (dir, real string) {
	t.Helper()
	real, dir = t.TempDir(), t.TempDir()
	data := &fs.LoopbackRoot{Path: real}
	data.RootNode = root(&fs.LoopbackNode{RootData: data})
	server, err := fs.Mount(dir, data.RootNode,
		&fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "xpwc", MaxReadAhead: 4096}})
	if err != nil {
		testkit.Lacks(t, err)
	}
	t.Cleanup(func() { require.NoError(t, server.Unmount()) })
	return dir, real
}

func TestEveryCommandThatWritesWorksWhereOpenFilesAreHidden(t *testing.T) {
	model := faceModel(t)
	_, file := packed(t, face)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, nameless := range []bool{false, true} {
		t.Run(fmt.Sprint("files without a name: ", nameless), func(t *testing.T) {
			dir, real := mount(t, func(n *fs.LoopbackNode) fs.InodeEmbedder { return &hiding{n, nameless} })
			elsewhere := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(real, "model.xpwc"), content, 0o600))
			in := func(name string) string { return filepath.Join(dir, name) }
			for _, args := range [][]string{
				{"pack", model, "-o", in("packed")},
				{"pack", testModel(t, selfie), "-o", in("packed")},
				{"pack", model, "-o", in("two"), "--cpu", "sse2,ssse3"},
				{"convert", in("model.xpwc"), "--to", "xpwc2", "-o", in("et")},
				{"convert", in("model.xpwc"), "--to", "native", "-o", in("back")},
				{"verify", in("back"), "--model", model},
				{"report", in("back"), "-o", in("page")},
				{"compact", in("packed")},
				{"prune", in("packed"), "--max-size", "100KiB"},
				{"verify", in("packed")},
				{"verify", in("two")},
			} {
				temporary := elsewhere
				if args[0] == "verify" {
					temporary = dir // convert's file disappears when the system reports that it was closed
				}
				t.Setenv("TMPDIR", temporary)
				printed(t, elsewhere, 0, args...)
			}
			require.Eventually(t, func() bool {
				return len(contents(t, real)) == len([]string{"", "model.xpwc", "packed", "two", "et", "back", "page"})
			}, time.Minute, time.Millisecond, "nothing is left")
		})
	}
}
