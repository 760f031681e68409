/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* unistd.h and sys/stat.h would bring libc's own view of stat beside the kernel's. */
extern long syscall(long number, ...);

#define STAT_BLOCK 512

static long system_call(long result)
{
	return result == -1 ? -errno : result;
}

uint32_t system_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

uint32_t system_pid(void)
{
	return (uint32_t)syscall(SYS_getpid);
}

static int file_check(int fd, uint64_t *bytes)
{
	struct statx stat = {0};
	long rc;

	rc = system_call(syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stat));
	if (rc)
		return (int)rc;
	if ((stat.stx_mode & S_IFMT) != S_IFREG)
		return -EINVAL;
	if (stat.stx_uid != (uint32_t)syscall(SYS_geteuid) || (stat.stx_mode & 0177))
		return -EPERM;
	if (!stat.stx_size)
		return -EINVAL;
	if (stat.stx_blocks * STAT_BLOCK < stat.stx_size)
		return -ENODATA;
	*bytes = stat.stx_size;
	return 0;
}

static int file_map(int fd, uint64_t bytes, void **map)
{
	long rc;

	rc = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		     0);
	if (rc == -1)
		return -errno;
	*map = (void *)rc;
	return 0;
}

int system_map(const char *path, void **map, uint64_t *bytes)
{
	int fd, rc;

	fd = (int)system_call(
		syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
	if (fd < 0)
		return fd;
	rc = file_check(fd, bytes);
	if (!rc)
		rc = file_map(fd, *bytes, map);
	syscall(SYS_close, fd);
	return rc;
}

int system_create(const char *path, uint64_t bytes, void **map)
{
	int fd, rc;

	fd = (int)system_call(syscall(SYS_openat, AT_FDCWD, path,
				      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
	if (fd < 0)
		return fd;
	rc = (int)system_call(syscall(SYS_fallocate, fd, 0, 0L, (long)bytes));
	if (!rc)
		rc = file_map(fd, bytes, map);
	if (rc)
		system_unlink(path);
	syscall(SYS_close, fd);
	return rc;
}

void system_unmap(void *map, uint64_t bytes)
{
	syscall(SYS_munmap, map, bytes);
}

int system_unlink(const char *path)
{
	return (int)system_call(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int system_peek(uint64_t address, void *into, size_t bytes)
{
	long fd, got;

	fd = system_call(syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return (int)fd;
	got = system_call(syscall(SYS_pread64, fd, into, bytes, address));
	syscall(SYS_close, fd);
	if (got < 0)
		return (int)got;
	return (size_t)got == bytes ? 0 : -EIO;
}

void system_sleep_ns(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u)};
	uint32_t word = 0;

	/* As an idle scheduler waits, so that no recording takes it for a stall. */
	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, word, &time, NULL, 0);
}

int system_barrier_register(void)
{
	return (int)system_call(
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
}

int system_barrier(void)
{
	return (int)system_call(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}
