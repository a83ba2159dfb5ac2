"""What runs inside the images: the Dockerfiles copy this folder to /opt/customops, and docker/locks to /opt/locks.

With ENGINE=host the same scripts run on the machine itself. A script reads its locks from ../locks in both places.
They import each other by their plain names, as the images have them in one folder.
"""

import sys

sys.path.append(__path__[0])
