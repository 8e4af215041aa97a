"""The last import of the server process from which workers are forked.

From here on, no collection of garbage looks at what is there. So workers go on sharing that memory, which a look would
change page by page, and neither the server nor its workers spend half a second on it when they end.
"""

import gc

gc.freeze()
