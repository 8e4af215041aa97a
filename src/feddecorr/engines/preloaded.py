"""The last import of the fork server.

From here on, garbage collection ignores what has been imported. So workers keep sharing that memory, which a collection
would copy page by page, and neither the server nor its workers spend half a second on it when they exit.
"""

import gc

gc.freeze()
