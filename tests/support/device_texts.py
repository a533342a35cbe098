"""Outputs of vendor tools beyond the samples: layouts of other releases, values replaced."""

from __future__ import annotations

MX_RULE = "+------------------+---------------+--------------------+\n"
MX_PROCESSES = """
+---------------------------------------------------------+
| Process:                                                |
|  GPU       PID         Process Name       GPU Memory    |
|                                           Usage(MiB)    |
|=========================================================|
{}
+---------------------------------------------------------+
"""


def mx(first: str, second: str, *rows: str, processes: str = "") -> str:
    return "".join([MX_RULE, f"{first}\n{second}\n", "|=====+=====+=====|\n", *rows, MX_RULE, processes])


OLDEST = mx(
    "| GPU         NAME     | Bus-id              | GPU-Util             |",
    "| Temp        Power    | Memory-Usage        |                      |",
    "| 0           MXC500   | 0000:05:00.0        | 0%                   |\n",
    "| 51C         71W      | 60982/65536 MiB     |                      |\n",
)
PERSISTENCE = mx(
    "| GPU     NAME         Persistence-M | Bus-id          | GPU-Util      sGPU-M |",
    "| Temp    Pwr:Usage/Cap         Perf | Memory-Usage    | GPU-State            |",
    "| 3       MetaX C500             Off | 0000:38:00.0    | 7%            Native |\n",
    "| 44C     97W / NA                P9 | 986/65536 MiB   | Available            |\n",
    processes=MX_PROCESSES.format("|  3       2477        python x.py        128           |"),
)
BOARDS = mx(
    "| Board       Name | GPU   Persist-M | Bus-id        | GPU-Util      sGPU-M |",
    "| Pwr:Usage/Cap    | Temp   Perf     | Memory-Usage  | GPU-State            |",
    "| 6      Mars X201 | 7           Off | 0000:ce:00.0  | 0%           Enabled |\n",
    "| 37W / 350W       | 32C          P0 | 858/65536 MiB | Available            |\n",
)

MT = """\
    mthreads-gmi:2.4.1           Driver Version:5.1.0-server
---------------------------------------------------------------------
ID   Name                 |PCIe                |%GPU  Mem
     Device Type   Perf   |Pcie Lane Width     |Temp  MPC Capable
                                               |      ECC Mode
+-------------------------------------------------------------------+
0    MTT S5000            |00000000:18:00.0    |0%    0MiB(81920MiB)
     Physical      P0     |16x(16x)            |48C   YES
                                               |      On-die, EDC
+-------------------------------------------------------------------+
1    MTT S3000            |00000000:5e:00.0    |58%   30094MiB(32768MiB)
     MPC Parent           |16x(16x)            |57C   YES
                                               |      N/A
---------------------------------------------------------------------
"""

MT_BUSY = (
    MT
    + """
---------------------------------------------------------------------
Processes:
ID   PID       Process name                               GPU Memory
                                                               Usage
+-------------------------------------------------------------------+
0    1123      /usr/lib/xorg/Xorg                             662MiB
1    4242      python train.py                              30000MiB
---------------------------------------------------------------------
"""
)

XPU = """\
+-----------------------------------------------------------------------------+
| XPU-SMI               Driver Version: 5.0.21.26    XPU-RT Version: 5.0.21   |
|-------------------------------+----------------------+----------------------+
| XPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | XPU-Util  Compute M. |
|                               |             L3-Usage |            SR-IOV M. |
|===============================+======================+======================|
|   0  P800 OAM           N/A   | 00000000:52:00.0 N/A |                    0 |
| N/A   38C  N/A     85W / 400W |   9000MiB / 98304MiB |     40%      Default |
|                               |      0MiB /    96MiB |             Disabled |
+-------------------------------+----------------------+----------------------+
|   1  P800 OAM           N/A   | 00000000:55:00.0 N/A |                    0 |
| N/A   40C  N/A     84W / 400W |      0MiB / 98304MiB |      0%      Default |
|                               |      0MiB /    96MiB |             Disabled |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  XPU   XI   CI        PID   Type   Process name                  XPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A      4242      C   python train.py                  8999MiB |
+-----------------------------------------------------------------------------+
"""

#: Tool, layout, text.
TEXTS = (
    ("mx-smi", "table", OLDEST),
    ("mx-smi", "table", PERSISTENCE),
    ("mx-smi", "table", BOARDS),
    ("mthreads-gmi", "table", MT),
    ("mthreads-gmi", "table", MT_BUSY),
    ("xpu-smi", "xpu-table", XPU),
)
