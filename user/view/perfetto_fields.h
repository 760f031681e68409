/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_FIELDS_H
#define BEAMWEAVE_PERFETTO_FIELDS_H

/*
 * Field numbers of Perfetto's published .proto files, as far as the export writes them. The same
 * numbers stand, with their types, in tests/perfetto/perfetto.proto.
 */

enum trace_field { TRACE_PACKET = 1 };

enum packet_field {
	PACKET_FTRACE_EVENTS = 1,
	PACKET_PROCESS_TREE = 2,
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_TRACE_STATS = 35,
	PACKET_SYSTEM_INFO = 45,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,
};

enum defaults_field { DEFAULTS_CLOCK_ID = 58 };

enum clock_snapshot_field { SNAPSHOT_CLOCKS = 1, SNAPSHOT_PRIMARY_CLOCK = 2 };
enum clock_field { CLOCK_CLOCK_ID = 1, CLOCK_TIMESTAMP = 2 };

enum interned_data_field {
	INTERNED_CATEGORIES = 1,
	INTERNED_EVENT_NAMES = 2,
	INTERNED_ANNOTATION_NAMES = 3,
};
enum interned_field { INTERNED_IID = 1, INTERNED_NAME = 2 };

enum track_event_field {
	TRACK_EVENT_CATEGORY_IIDS = 3,
	TRACK_EVENT_DEBUG_ANNOTATIONS = 4,
	TRACK_EVENT_TYPE = 9,
	TRACK_EVENT_NAME_IID = 10,
	TRACK_EVENT_TRACK_UUID = 11,
	TRACK_EVENT_COUNTER_VALUE = 30,
	TRACK_EVENT_FLOW_IDS = 47,
	TRACK_EVENT_TERMINATING_FLOW_IDS = 48,
};

enum annotation_field {
	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_STRING = 6,
};

enum track_descriptor_field {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_THREAD_DESCRIPTOR = 4,
	TRACK_PARENT_UUID = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILD_ORDERING = 11,
	TRACK_RANK = 12,
	TRACK_DESCRIPTION = 14,
	TRACK_MERGE = 15,
	TRACK_THREAD_ORDERING = 20,
};
enum track_order { ORDER_EXPLICIT = 3, ORDER_THREADS_EXPLICIT = 1 };
enum track_merge { MERGE_BY_NAME = 1, MERGE_NONE = 2 };
enum thread_descriptor_field { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum counter_descriptor_field { COUNTER_UNIT = 3 };

enum system_info_field { SYSTEM_UTSNAME = 1 };
enum utsname_field {
	UTSNAME_SYSNAME = 1,
	UTSNAME_VERSION = 2,
	UTSNAME_RELEASE = 3,
	UTSNAME_MACHINE = 4
};

enum process_tree_field { TREE_PROCESSES = 1, TREE_THREADS = 2 };
enum tree_process_field {
	TREE_PROCESS_PID = 1,
	TREE_PROCESS_CMDLINE = 3,
	TREE_PROCESS_CMDLINE_IS_COMM = 9,
};
enum tree_thread_field { TREE_THREAD_TID = 1, TREE_THREAD_NAME = 2, TREE_THREAD_TGID = 3 };

enum trace_stats_field { STATS_BUFFER = 1 };
enum buffer_stats_field { BUFFER_PACKET_LOSS = 19 };

enum bundle_field { BUNDLE_CPU = 1, BUNDLE_EVENT = 2, BUNDLE_LOST_EVENTS = 3 };

enum ftrace_event_field {
	FTRACE_TIMESTAMP = 1,
	FTRACE_PID = 2,
	FTRACE_SCHED_SWITCH = 4,
	FTRACE_COMMON_FLAGS = 5,
	FTRACE_SCHED_WAKING = 20,
	FTRACE_SCHED_WAKEUP_NEW = 114,
	FTRACE_TASK_NEWTASK = 235,
	FTRACE_TASK_RENAME = 236,
	FTRACE_SCHED_PROCESS_EXIT = 238,
	FTRACE_SCHED_PROCESS_FREE = 240,
	FTRACE_SCHED_MIGRATE_TASK = 491,
};

enum sched_switch_field {
	SWITCH_PREV_COMM = 1,
	SWITCH_PREV_PID = 2,
	SWITCH_PREV_PRIO = 3,
	SWITCH_PREV_STATE = 4,
	SWITCH_NEXT_COMM = 5,
	SWITCH_NEXT_PID = 6,
	SWITCH_NEXT_PRIO = 7,
};
enum sched_waking_field {
	WAKING_COMM = 1,
	WAKING_PID = 2,
	WAKING_PRIO = 3,
	WAKING_SUCCESS = 4,
	WAKING_TARGET_CPU = 5,
};
enum sched_migrate_field {
	MIGRATE_COMM = 1,
	MIGRATE_PID = 2,
	MIGRATE_PRIO = 3,
	MIGRATE_ORIG_CPU = 4,
	MIGRATE_DEST_CPU = 5,
};
enum task_newtask_field { NEWTASK_PID = 1, NEWTASK_COMM = 2, NEWTASK_CLONE_FLAGS = 3 };
enum task_rename_field { RENAME_PID = 1, RENAME_NEWCOMM = 3 };
enum sched_process_field { SCHED_PROCESS_COMM = 1, SCHED_PROCESS_PID = 2, SCHED_PROCESS_TGID = 3 };

#endif
