package trust

import (
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// administrators may change any file, so it returns "" if they own one, or are let write to it.
var administrators = []windows.WELL_KNOWN_SID_TYPE{
	windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid,
	windows.WinCreatorOwnerSid, windows.WinCreatorOwnerRightsSid,
}

// Writable returns "" on Windows, where a mode does not show who may write.
func Writable(fs.FileInfo) string { return "" }

// Renamable returns "" on Windows, where a mode does not show who may rename files.
func Renamable(fs.FileInfo) string { return "" }

// Foreign returns what lets another user change a file, or "". The file is not looked at before it is
// open as f.
func Foreign(f *os.File, _ fs.FileInfo) string {
	if f == nil {
		return ""
	}
	problem, err := foreignAccess(windows.Handle(f.Fd()))
	if err != nil {
		return fmt.Sprintf("its access list cannot be read (%v)", err)
	}
	return problem
}

func foreignAccess(h windows.Handle) (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", err
	}
	trusted := func(sid *windows.SID) bool {
		for _, kind := range administrators {
			if sid.IsWellKnown(kind) {
				return true
			}
		}
		return sid.Equals(user.User.Sid)
	}
	descriptor, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return "", err
	}
	if !trusted(owner) {
		return "it belongs to " + nameOf(owner), nil
	}
	list, _, err := descriptor.DACL()
	if err != nil {
		return "", err
	}
	if list == nil {
		return "it has no access list, so everybody can write to it", nil
	}
	const changing = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.WRITE_DAC | windows.WRITE_OWNER |
		windows.GENERIC_WRITE | windows.GENERIC_ALL
	for i := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return "", err
		}
		if entry.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE ||
			entry.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&entry.SidStart))
		if entry.Mask&changing != 0 && !trusted(sid) {
			return fmt.Sprintf("its access list lets %s write to it", nameOf(sid)), nil
		}
	}
	return "", nil
}

// nameOf is an account's name where the system knows it.
func nameOf(sid *windows.SID) string {
	account, domain, _, err := sid.LookupAccount("")
	if err != nil {
		return sid.String()
	}
	return domain + `\` + account
}

// followLinks refuses links: who may change one is not looked at on Windows.
func followLinks(path string) (string, error) {
	return "", NotRegular{path}
}
