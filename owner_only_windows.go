package xpwc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ownerOnly lets nobody but this user, the system and administrators read or write a new file, whatever its directory
// passes on.
func ownerOnly() (*windows.SecurityAttributes, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("find out who owns the process: %w", err)
	}
	descriptor, err := windows.SecurityDescriptorFromString(fmt.Sprintf("D:P(A;;FA;;;%s)(A;;FA;;;SY)(A;;FA;;;BA)",
		user.User.Sid))
	if err != nil {
		return nil, fmt.Errorf("make an access list: %w", err)
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	return attributes, nil
}
