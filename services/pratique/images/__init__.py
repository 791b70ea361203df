"""Images and their signatures: references, registries, and policies that say whose signatures an image needs."""
