/* Memory of the far backend: pages that nobody may touch except a worker while it works on them.
 *
 * Called by the backend's table (alloc, free) and by the streams' workers (touch, leave). Rule it
 * keeps: outside far_touch and far_leave the pages have no access rights, so that a host that reads
 * device memory, or takes a handle for a pointer, crashes at once. A page without rights also follows
 * each allocation, and fresh memory is all ones (NaN), so that unwritten elements show.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "far.h"

struct far_memory {
  far_memory* next; /* in the bucket */
  char* base;
  size_t size;
  size_t mapped;
  int32_t device;
  int32_t queued; /* jobs that still need it */
  int32_t users;  /* workers inside */
};

#define BUCKETS 1024
static far_memory* buckets[BUCKETS];
static int64_t allocated;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static far_memory** bucket_of(const void* base) { return &buckets[((uintptr_t)base >> 12) % BUCKETS]; }

static far_memory* find_memory(const void* base) {
  far_memory* memory = *bucket_of(base);
  while (memory != NULL && (const void*)memory->base != base) memory = memory->next;
  return memory;
}

static mlxc_error* out_of_memory(void) {
  return far_host->error_make(MLXC_ERROR_MEMORY, "far backend: out of device memory");
}

mlxc_error* far_alloc(mlxc_backend_device* device, size_t size, mlxc_backend_memory** memory) {
  mlxc_error* error = far_check();
  if (error != NULL) return error;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (size > (size_t)INT64_MAX / 2) return out_of_memory();
  size_t data = (size + page - 1) / page * page;
  if (data == 0) data = page;

  pthread_mutex_lock(&lock);
  int over = far_set.alloc_limit >= 0 && (int64_t)size > far_set.alloc_limit - allocated;
  if (!over) allocated += (int64_t)size;
  pthread_mutex_unlock(&lock);
  if (over) return out_of_memory();

  far_memory* made = calloc(1, sizeof *made);
  char* base = mmap(NULL, data + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int failed = made == NULL || base == MAP_FAILED || mprotect(base, data, PROT_READ | PROT_WRITE) != 0;
  if (!failed) {
    memset(base, 0xff, size);
    failed = mprotect(base, data, PROT_NONE) != 0;
  }
  pthread_mutex_lock(&lock);
  if (failed) {
    allocated -= (int64_t)size;
  } else {
    *made = (far_memory){
        .next = *bucket_of(base), .base = base, .size = size, .mapped = data + page, .device = device->index};
    *bucket_of(base) = made;
    *memory = (mlxc_backend_memory*)(void*)base;
  }
  pthread_mutex_unlock(&lock);
  if (!failed) return NULL;
  if (base != MAP_FAILED) munmap(base, data + page);
  free(made);
  return out_of_memory();
}

void far_free(mlxc_backend_device* device, mlxc_backend_memory* memory) {
  pthread_mutex_lock(&lock);
  far_memory* found = find_memory(memory);
  const char* fault = NULL;
  if (found == NULL)
    fault = "free of something that was never allocated or was freed before";
  else if (found->device != device->index)
    fault = "free on a device other than the memory's";
  else if (found->queued > 0)
    fault = "free of memory that queued work still needs";
  if (fault == NULL) {
    far_memory** at = bucket_of(found->base);
    while (*at != found) at = &(*at)->next;
    *at = found->next;
    allocated -= (int64_t)found->size;
    munmap(found->base, found->mapped);
    free(found);
  }
  pthread_mutex_unlock(&lock);
  if (fault != NULL) far_complain("%s", fault);
}

void* far_host_pointer(mlxc_backend_memory* memory) {
  (void)memory;
  return NULL;
}

far_memory* far_hold(mlxc_backend_device* device, mlxc_backend_memory* memory, int64_t begin, int64_t end) {
  pthread_mutex_lock(&lock);
  far_memory* found = find_memory(memory);
  int here = found != NULL && found->device == device->index;
  int inside = here && begin >= 0 && end >= begin && end <= (int64_t)found->size;
  long long size = found == NULL ? 0 : (long long)found->size;
  if (inside) found->queued++;
  pthread_mutex_unlock(&lock);
  if (inside) return found;
  if (found == NULL) {
    far_complain("work on memory that was never allocated or was freed");
  } else if (!here) {
    far_complain("work on device %d with memory of another device", (int)device->index);
  } else {
    far_complain("bytes %lld to %lld of memory that has %lld", (long long)begin, (long long)end, size);
  }
  return NULL;
}

void far_drop(far_memory* memory) {
  pthread_mutex_lock(&lock);
  memory->queued--;
  pthread_mutex_unlock(&lock);
}

char* far_touch(far_memory* memory) {
  pthread_mutex_lock(&lock);
  if (memory->users++ == 0 && memory->size > 0 &&
      mprotect(memory->base, memory->mapped - (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) != 0)
    far_complain("mprotect could not open pages");
  pthread_mutex_unlock(&lock);
  return memory->base;
}

void far_leave(far_memory* memory) {
  pthread_mutex_lock(&lock);
  if (--memory->users == 0 && memory->size > 0 &&
      mprotect(memory->base, memory->mapped - (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) != 0)
    far_complain("mprotect could not close pages");
  pthread_mutex_unlock(&lock);
}
