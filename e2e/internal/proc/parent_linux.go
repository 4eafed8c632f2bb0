package proc

import "syscall"

// endWithParent has the kernel kill the process when this one ends, however that comes about.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
